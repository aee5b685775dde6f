// Built from page/ by "make page". Sources: 0c0dabdd8d8bc975
import{a,b}from"./chunk-KBGSR5UF.js";import"./chunk-YLQXAIIP.js";import"./chunk-4JMHPW5T.js";import"./chunk-K6BGBXFP.js";import"./chunk-HQN4N7VT.js";export{a as LayersView,b as Lens};
