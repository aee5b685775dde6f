// Built from page/ by "make page". Sources: f5916a4e87f07fd7
import{a,b,c}from"./chunk-QVCFNBTQ.js";import"./chunk-MEOHPC6A.js";import"./chunk-OVRYVMGN.js";import"./chunk-XNZOBDJD.js";export{c as Heads,b as Input,a as InsideView};
