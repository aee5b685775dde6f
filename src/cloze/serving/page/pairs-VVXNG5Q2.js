// Built from page/ by "make page". Sources: f6513763393dba6c
import{a,b}from"./chunk-3YFTO2SO.js";import"./chunk-6PY4EIQ7.js";export{a as PairsView,b as bySense};
