// Built from page/ by "make page". Sources: 17a28630d5e8292a
import{a,b,c}from"./chunk-PGILMTJE.js";import"./chunk-3HT2UHSS.js";import"./chunk-D6N4PL2S.js";import"./chunk-KUD7AJEU.js";export{c as Heads,b as Input,a as InsideView};
