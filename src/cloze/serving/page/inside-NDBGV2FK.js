// Built from page/ by "make page". Sources: 93c37ecb41bcc7f8
import{a,b,c}from"./chunk-X2NZISQP.js";import"./chunk-ASYIOQGF.js";import"./chunk-WFB4SALG.js";import"./chunk-LA7IMKHA.js";export{c as Heads,b as Input,a as InsideView};
