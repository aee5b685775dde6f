// Built from page/ by "make page". Sources: 411846a19b5f064f
import{a,b,c}from"./chunk-7TBAU2D7.js";import"./chunk-NWHPCMCK.js";import"./chunk-3JJX7PXG.js";import"./chunk-TDIP4MKY.js";export{c as Heads,b as Input,a as InsideView};
