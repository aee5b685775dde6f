// Built from page/ by "make page". Sources: 4760e7600cd10f83
import{a,b}from"./chunk-WEU5ZXWU.js";import"./chunk-USPGMHE3.js";import"./chunk-VIBDSLPM.js";import"./chunk-3MGQVOB2.js";export{a as LayersView,b as Lens};
