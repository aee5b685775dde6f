// Built from page/ by "make page". Sources: a24112233e559303
import{a,b}from"./chunk-EZC6IJF2.js";import"./chunk-MBRLIOP4.js";import"./chunk-IDZQWMJM.js";import"./chunk-S6UOV5SF.js";export{a as LayersView,b as Lens};
