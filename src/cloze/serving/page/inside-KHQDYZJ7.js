// Built from page/ by "make page". Sources: 4760e7600cd10f83
import{a,b,c}from"./chunk-W3FWA5ZE.js";import"./chunk-USPGMHE3.js";import"./chunk-VIBDSLPM.js";import"./chunk-3MGQVOB2.js";export{c as Heads,b as Input,a as InsideView};
