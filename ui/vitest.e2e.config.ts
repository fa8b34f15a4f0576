import { defineConfig } from "vitest/config";

// Records programs and drives a browser: one file at a time, and time enough for a busy host.
export default defineConfig({
  test: {
    include: ["e2e/**/*.test.ts"],
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 240_000,
    reporters: ["default", "./tests/tally.ts"],
  },
});
