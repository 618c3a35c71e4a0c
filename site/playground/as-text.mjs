// `import { text } from './file.cu?text'`, for esbuild: what the page and its worker have of files that are no JavaScript.
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

export const asText = {
  name: 'text',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\?text$/ }, ({ path, resolveDir }) => ({
      path: resolve(resolveDir, path.slice(0, -'?text'.length)),
      namespace: 'text',
    }))
    onLoad({ filter: /.*/, namespace: 'text' }, ({ path }) => ({
      contents: `export const text = ${JSON.stringify(readFileSync(path, 'utf8'))}`,
    }))
  },
}
