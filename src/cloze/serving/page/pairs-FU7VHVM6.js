// Built from page/ by "make page". Sources: c5b7b4ae72d19cbe
import{a,b}from"./chunk-A3X6LNLR.js";import"./chunk-M7VQUBKD.js";export{a as PairsView,b as bySense};
