// Built from page/ by "make page". Sources: 0c0dabdd8d8bc975
import{a,b,c}from"./chunk-W77EIPXH.js";import"./chunk-4JMHPW5T.js";import"./chunk-K6BGBXFP.js";import"./chunk-HQN4N7VT.js";export{c as Heads,b as Input,a as InsideView};
