/** Other versions of this library and of Node: a path, or what npm has, which goes into .cache/. */

import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './root.js'

interface RunTimes {
  readonly RUN_TIMES: readonly { readonly name: string }[]
  install(name: string, ...packages: readonly string[]): string
  programOf(runTime: { readonly name: string }): string
}

const runTimes = async (): Promise<RunTimes> => import(pathToFileURL(join(root, 'scripts', 'run-times.mjs')).href)

/** The folder of a package: `version` is that folder, or the version that npm is to install. */
export async function folderOf(version: string): Promise<string> {
  if (existsSync(join(version, 'package.json'))) return resolve(version)
  const { install } = await runTimes()
  try {
    return join(install(`cuda-streams-${version}`, `cuda-streams@${version}`), 'node_modules', 'cuda-streams')
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new Error(
      `--against ${version}: no folder of a built package, and npm cannot get it (${why.split('\n')[0]}). Build that version, and pass its folder`,
    )
  }
}

/** A Node: a path, or a major version, which stands beside this one in a bundle, and else comes from npm. */
export async function nodeOf(node: string): Promise<string> {
  const beside = join(dirname(process.execPath), `node${node}`)
  for (const path of [beside, resolve(node)]) if (existsSync(path)) return path
  const { RUN_TIMES, programOf } = await runTimes()
  const runTime = RUN_TIMES.find(({ name }) => name === `node${node}`)
  if (runTime === undefined) throw new Error(`--node ${node}: neither a program nor a version of scripts/run-times.mjs`)
  return programOf(runTime)
}
