// What went wrong in an agent's code, told to the house's log; one that fails in a loop is told of, not copied out.
import type { FromAgent } from "../protocol.ts";
import { toProblem } from "./loader.ts";

export type Report = (error: unknown) => void;

const PER_SECOND_MAX = 20; // a person reads the first few; a hundred thousand a second would fill the disk

export function createReport(put: (message: FromAgent) => void, now: () => number): Report {
  let second = 0;
  let told = 0;
  let untold = 0;

  return (error) => {
    const current = Math.floor(now() / 1000);
    if (current !== second) told = 0;
    second = current;
    if (told >= PER_SECOND_MAX) {
      untold++;
      return;
    }
    told++;
    put({ type: "problem", problem: { ...toProblem(error), ...(untold > 0 ? { untold } : {}) } });
    untold = 0;
  };
}
