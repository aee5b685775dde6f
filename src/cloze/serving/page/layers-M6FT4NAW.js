// Built from page/ by "make page". Sources: 411846a19b5f064f
import{a,b}from"./chunk-27CLUN25.js";import"./chunk-NWHPCMCK.js";import"./chunk-3JJX7PXG.js";import"./chunk-TDIP4MKY.js";export{a as LayersView,b as Lens};
