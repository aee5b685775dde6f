// Built from page/ by "make page". Sources: 4cfe3c72a967fa2f
import{a,b}from"./chunk-CG7VUSPZ.js";import"./chunk-GXG42AQI.js";export{a as PairsView,b as bySense};
