// First import of the process: Elysia reads NODE_ENV when it loads, and in development it prints every refused body anew.
if (Bun.isStandaloneExecutable) process.env.NODE_ENV ??= "production";
