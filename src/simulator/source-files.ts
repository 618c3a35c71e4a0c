/** The files that kernels were compiled from, for inspectors that step through them (`simulate({ sourceMaps })`). */
import { process } from '../foundation/base/node-modules.js'
import type { FindSource } from '../ptx/ptx.js'

type SourceFile = NonNullable<ReturnType<FindSource>>

/** The most folders that are searched for a file. */
const MOST_FOLDERS = 5000

export class SourceFiles {
  /** The texts that this machine has compiled; keys are the names that the compiler was given. */
  readonly #compiled = new Map<string, string>()
  readonly #found = new Map<string, SourceFile | undefined>()

  /** @param folder The folder in and below which a file is looked for whose name has no folder, as compiled `.cu` files have none */
  constructor(private readonly folder: string) {}

  /** Keeps a text that is compiled, which may be no file. */
  add(file: string, text: string): void {
    this.#compiled.set(file, text)
  }

  readonly find: FindSource = (file) => {
    const compiled = this.#compiledText(file)
    if (compiled !== undefined) {
      const stored = this.#stored(file)
      return stored?.text === compiled ? stored : { url: `cuda-streams:///${baseName(file)}`, text: compiled }
    }
    if (!this.#found.has(file)) this.#found.set(file, this.#stored(file))
    return this.#found.get(file)
  }

  /** NVRTC puts the working directory before the name that it was given. */
  #compiledText(file: string): string | undefined {
    for (const [name, text] of this.#compiled) if (file === name || file.endsWith(`/${name}`)) return text
    return undefined
  }

  #stored(file: string): SourceFile | undefined {
    const { resolve } = process.getBuiltinModule('node:path')
    const own = read(resolve(this.folder, file))
    if (own !== undefined || baseName(file) !== file) return own
    for (const folder of foldersBelow(resolve(this.folder))) {
      const found = read(`${folder}/${file}`)
      if (found !== undefined) return found
    }
    return undefined
  }
}

const baseName = (file: string): string => file.replace(/^.*[/\\]/, '')

/** The file with its text; undefined if it cannot be read. */
function read(path: string): SourceFile | undefined {
  try {
    const text = process.getBuiltinModule('node:fs').readFileSync(path, 'utf8')
    return { url: process.getBuiltinModule('node:url').pathToFileURL(path).href, text }
  } catch {
    return undefined
  }
}

/** The folder and those below it, the nearest ones first, without installed packages and hidden folders. */
function* foldersBelow(top: string): Generator<string> {
  const queue = [top]
  for (let index = 0; index < Math.min(queue.length, MOST_FOLDERS); index++) {
    const folder = queue[index] ?? top
    yield folder
    for (const name of foldersIn(folder)) queue.push(`${folder}/${name}`)
  }
}

function foldersIn(folder: string): readonly string[] {
  try {
    const entries = process.getBuiltinModule('node:fs').readdirSync(folder, { withFileTypes: true })
    const folders = entries.filter((each) => each.isDirectory() && !/^(?:\..*|node_modules)$/.test(each.name))
    return folders.map(({ name }) => name).sort()
  } catch {
    return []
  }
}
