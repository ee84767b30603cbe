// A refusal of one of many says which one.
import { AppError } from "../platform/errors.ts";

export function naming<T>(where: string | undefined, attempt: () => T): T {
  try {
    return attempt();
  } catch (error) {
    if (where === undefined || !(error instanceof AppError)) throw error;
    throw new AppError(error.code, { say: `${where}: ${error.message}`, cause: error });
  }
}
