// Built from page/ by "make page". Sources: 93c37ecb41bcc7f8
import{a,b}from"./chunk-DSHKCCYO.js";import"./chunk-ASYIOQGF.js";import"./chunk-WFB4SALG.js";import"./chunk-LA7IMKHA.js";export{a as LayersView,b as Lens};
