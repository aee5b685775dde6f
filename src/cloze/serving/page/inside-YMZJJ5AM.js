// Built from page/ by "make page". Sources: 693dc8fa86d21315
import{a,b,c}from"./chunk-CSCTATG2.js";import"./chunk-GW3YY5LF.js";import"./chunk-ZDCDWLT2.js";import"./chunk-OTAQ6OMW.js";export{c as Heads,b as Input,a as InsideView};
