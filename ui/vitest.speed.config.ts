import { defineConfig } from "vitest/config";

export default defineConfig({ test: { include: ["e2e/speed.ts"], testTimeout: 600_000 } });
