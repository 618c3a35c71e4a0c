import { cpSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { cuEsbuild } from 'cuda-streams/cu'
import { build } from 'esbuild'

await build({
  entryPoints: ['server.ts'],
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  outfile: 'out/server.js',
  plugins: [cuEsbuild()],
})
// What calls the driver of a GPU. The simulator does without.
cpSync(fileURLToPath(new URL('../../native', import.meta.resolve('cuda-streams'))), 'out/native', { recursive: true })
