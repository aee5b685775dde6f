// Built from page/ by "make page". Sources: 693dc8fa86d21315
import{a,b}from"./chunk-PCBFIUBP.js";import"./chunk-GW3YY5LF.js";import"./chunk-ZDCDWLT2.js";import"./chunk-OTAQ6OMW.js";export{a as LayersView,b as Lens};
