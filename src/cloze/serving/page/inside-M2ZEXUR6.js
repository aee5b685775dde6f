// Built from page/ by "make page". Sources: a04b58c85f7e2293
import{a,b,c}from"./chunk-NJR2U7PK.js";import"./chunk-GZ2T2UXP.js";import"./chunk-FRDMQ63P.js";export{c as Heads,b as Input,a as InsideView};
