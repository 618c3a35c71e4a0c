/** Every library that has an about-NAME.ts in a folder here. */
import { readdirSync } from 'node:fs'
import type { AboutLibrary } from './about-library.js'

const here = new URL('.', import.meta.url)
const files = readdirSync(here, { recursive: true, encoding: 'utf8' }).filter((name) =>
  /^(\w+)[\\/]about-\1\.js$/.test(name),
)

export const aboutLibraries: readonly AboutLibrary[] = await Promise.all(
  files.toSorted().map(async (name) => ((await import(new URL(name, here).href)) as { about: AboutLibrary }).about),
)
