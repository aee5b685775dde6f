// Built from page/ by "make page". Sources: f5916a4e87f07fd7
import{a,b}from"./chunk-QHBLZVRL.js";import"./chunk-BYOGPTYY.js";import"./chunk-MEOHPC6A.js";import"./chunk-OVRYVMGN.js";import"./chunk-XNZOBDJD.js";export{a as LayersView,b as Lens};
