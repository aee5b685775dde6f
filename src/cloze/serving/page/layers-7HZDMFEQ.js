// Built from page/ by "make page". Sources: fcce294b7eeb0839
import{a,b}from"./chunk-RNMJQIAT.js";import"./chunk-5F7BGHLQ.js";import"./chunk-XGBBH32O.js";import"./chunk-CXA66VWO.js";import"./chunk-YH5Q6EUO.js";export{a as LayersView,b as Lens};
