// Built from page/ by "make page". Sources: 37475c8d70991ca3
import{a,b}from"./chunk-XFPGEXLB.js";import"./chunk-RRDB55Z6.js";export{a as PairsView,b as bySense};
