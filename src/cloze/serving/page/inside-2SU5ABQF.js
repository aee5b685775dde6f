// Built from page/ by "make page". Sources: 3c60ef489507cd36
import{a,b,c}from"./chunk-CYXLBHAG.js";import"./chunk-PQHYWJ3X.js";import"./chunk-WII27WTS.js";import"./chunk-L7ZTTWQE.js";export{c as Heads,b as Input,a as InsideView};
