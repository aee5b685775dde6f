/** The parts that views are made of. */

export * from "./answer";
export * from "./charts";
export * from "./drawing";
export * from "./explained";
export * from "./forms";
export * from "./grid";
export * from "./marked";
export * from "./models";
export * from "./pixels";
export * from "./save";
export * from "./section";
export * from "./share";
