// Built from page/ by "make page". Sources: fcce294b7eeb0839
import{a,b,c}from"./chunk-LEQHPQMC.js";import"./chunk-XGBBH32O.js";import"./chunk-CXA66VWO.js";import"./chunk-YH5Q6EUO.js";export{c as Heads,b as Input,a as InsideView};
