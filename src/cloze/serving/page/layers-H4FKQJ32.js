// Built from page/ by "make page". Sources: 3c60ef489507cd36
import{a,b}from"./chunk-V67ETWGL.js";import"./chunk-4CTIWZWP.js";import"./chunk-PQHYWJ3X.js";import"./chunk-WII27WTS.js";import"./chunk-L7ZTTWQE.js";export{a as LayersView,b as Lens};
