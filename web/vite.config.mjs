// Two pages (the front-end itself, and one cell's output for other pages to embed) and a sandbox that is
// copied as it is. Addresses are relative: the gateway fills in the base of the pages.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const here = name => fileURLToPath(new URL(name, import.meta.url));

export default defineConfig({
  base: './',
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  resolve: {
    alias: [
      // rendermime needs one class of each of these; the whole of them is most of JupyterLab.
      { find: /^@jupyterlab\/apputils$/, replacement: here('src/slim/apputils.ts') },
      { find: /^@jupyterlab\/services$/, replacement: here('src/slim/services.ts') },
      { find: /^path$/, replacement: here('src/slim/path.ts') },
    ],
  },
  build: {
    target: 'es2021',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 6000,
    reportCompressedSize: false,
    manifest: 'manifest.json',
    rollupOptions: { input: { index: here('index.html'), embed: here('embed.html') } },
  },
});
