/** The modules that a program imports from the package, as its package.json has them: those that are added later are among them. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../helpers/root.js'

interface Manifest {
  readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>
}

const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest

/** `cuda-streams`, `cuda-streams/sim`, and so on; without hooks and plugins for programs that load modules. */
const names = Object.entries(exports).flatMap(([name, files]) =>
  typeof files === 'string' || name.split('/').length > 2 ? [] : [`cuda-streams${name.slice(1)}`],
)

export type Module = Readonly<Record<string, unknown>>
type Class = (new (...args: readonly never[]) => object) & { readonly prototype: object }

export const entryPoints: ReadonlyMap<string, Module> = new Map(
  await Promise.all(names.map(async (name): Promise<[string, Module]> => [name, (await import(name)) as Module])),
)

export const isClass = (value: unknown): value is Class =>
  typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value))

/** Every class of every entry point, once. */
export const publicClasses: ReadonlySet<Class> = new Set(
  [...entryPoints.values()].flatMap((module) => Object.values(module).filter(isClass)),
)
