import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The bundle is committed, and a test builds it anew and compares: names without hashes, one chunk for each entry and
// each part that is loaded when it is needed.
export default defineConfig({
  plugins: [svelte()],
  base: "./",
  build: {
    target: "es2022",
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
});
