// Built from page/ by "make page". Sources: 2eba153662a23f98
import{a,b}from"./chunk-T652PMKG.js";import"./chunk-Z4VFOALU.js";export{a as PairsView,b as bySense};
