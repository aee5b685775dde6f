// Built from page/ by "make page". Sources: a04b58c85f7e2293
import{a,b}from"./chunk-ATP6UB5L.js";import"./chunk-EFLPRT75.js";import"./chunk-GZ2T2UXP.js";import"./chunk-FRDMQ63P.js";export{a as LayersView,b as Lens};
