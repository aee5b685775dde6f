// Built from page/ by "make page". Sources: a24112233e559303
import{a,b,c}from"./chunk-MRNBXXU5.js";import"./chunk-IDZQWMJM.js";import"./chunk-S6UOV5SF.js";export{c as Heads,b as Input,a as InsideView};
