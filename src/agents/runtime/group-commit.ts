// One transaction, and so one flush of the disk, for all that wants to be stored at the same moment.

export type GroupCommit = ReturnType<typeof createGroupCommit>;

type Waiting = { task: () => void; resolve: () => void; reject: (error: unknown) => void };

export function createGroupCommit(transaction: <T>(task: () => T) => T) {
  let waiting: Waiting[] = [];

  /** Resolves once the disk has it. A task that throws takes back its own writes and nobody else's. */
  function together<T>(task: () => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    let result: T;
    waiting.push({
      task: () => {
        result = task();
      },
      resolve: () => resolve(result),
      reject,
    });
    if (waiting.length === 1) setImmediate(commit); // what has arrived by then goes along
    return promise;
  }

  function commit(): void {
    const group = waiting;
    waiting = [];
    const [only] = group;
    try {
      if (group.length === 1 && only) transaction(only.task);
      else for (const failed of transaction(() => runEach(group))) group.splice(group.indexOf(failed), 1);
      for (const { resolve } of group) resolve();
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }

  /** Each in a transaction of its own inside the common one; returns those that failed. */
  function runEach(group: readonly Waiting[]): Waiting[] {
    return group.filter((one) => {
      try {
        transaction(one.task);
        return false;
      } catch (error) {
        one.reject(error);
        return true;
      }
    });
  }

  return together;
}
