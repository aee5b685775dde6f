// Built from page/ by "make page". Sources: 1b39777cf6c59c6a
import{a,b}from"./chunk-W7FEERGM.js";import"./chunk-YQBIHR5Z.js";export{a as PairsView,b as bySense};
