// What this build is.
import { version } from "../../package.json";

declare const GATEHOUSE_COMMIT: string; // put in by scripts/build; undeclared when run from source

export const VERSION = version;
export const COMMIT = typeof GATEHOUSE_COMMIT === "string" ? GATEHOUSE_COMMIT : "source";
