/**
 * The compiler of PTX, loaded with the first module of PTX: it is a third of the simulator's code, and most programs need none. In a bundle
 * and in a page load-ptx-in-bundle.ts takes the place of this file, by `#load-ptx` in package.json.
 */
import { createRequire } from 'node:module'
import { loadEsModule } from '../foundation/base/load-es-module.js'

type Compiler = typeof import('../ptx/ptx.js')

const require = createRequire(import.meta.url)
const load = (): Compiler =>
  loadEsModule({ require, from: import.meta.url }, '../ptx/ptx.js', 'the compiler of PTX', () =>
    require('../ptx/ptx.js'),
  )
let loaded: Compiler | undefined

export function loadPtx(): Compiler {
  loaded ??= load()
  return loaded
}
