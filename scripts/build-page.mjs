// Makes dist/src/tools/timeline/page-template.js: the page of a timeline with its style and script inside, for the data to be put in.
// The script's modules are put one behind the other; imports run one way, so each comes after those that it needs.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { Script } from 'node:vm'

const IMPORT = /^import [^;]*? from '\.{1,2}\/([\w-]+)\.js';\n/gm

export function buildPage(root, compiler) {
  const source = join(root, 'src', 'tools', 'timeline', 'page')
  const compiled = join(root, 'dist', 'page')
  const { status } = spawnSync(process.execPath, [compiler, '-p', source], { stdio: 'inherit' })
  if (status !== 0) return status ?? 1
  const script = `(() => {\n'use strict'\n${joinModules(compiled)}})()\n`
  rmSync(compiled, { recursive: true })
  // Two modules that each have the name for themselves are right alone, and cannot be read in one script.
  new Script(script, { filename: 'the script of the timeline page' })
  const page = readFileSync(join(source, 'page.html'), 'utf8')
    .replace('/*STYLE*/', () => readFileSync(join(source, 'page.css'), 'utf8'))
    .replace('/*SCRIPT*/', () => script)
  const file = join(root, 'dist', 'src', 'tools', 'timeline', 'page-template.js')
  writeFileSync(file, `export const TEMPLATE = ${JSON.stringify(page)};\n`)
  return 0
}

function joinModules(directory) {
  const modules = new Map()
  for (const path of readdirSync(directory, { recursive: true }).filter((path) => path.endsWith('.js'))) {
    const file = basename(path)
    if (modules.has(file)) throw new Error(`Two modules of the page are called ${file}`)
    const text = readFileSync(join(directory, path), 'utf8')
    const needs = [...text.matchAll(IMPORT)].map(([, name]) => `${name}.js`)
    modules.set(file, { needs, text: text.replace(IMPORT, '').replace(/^export (?=const|class|function|let)/gm, '') })
  }
  const done = new Set()
  const pieces = []
  const put = (file) => {
    if (done.has(file)) return
    done.add(file)
    const { needs, text } = modules.get(file)
    for (const need of needs) put(need)
    if (/^(import|export) (?!\{\s*\};)/m.test(text))
      throw new Error(`${file} has an import or export that is not understood`)
    pieces.push(text.replace(/^export \{\s*\};\n/gm, ''))
  }
  for (const file of [...modules.keys()].sort()) put(file)
  return pieces.join('')
}
