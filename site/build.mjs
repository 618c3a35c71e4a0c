// Builds the site into site/dist/, for any server of static files: `npm run site`, or `npm run site -- --base /below/`
// where it does not stand at the root of its host; with `--built` the library is not built again. What it is built with, and the
// types that the sources import, are installed first where they are missing.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const here = dirname(fileURLToPath(import.meta.url))
const root = dirname(here)
const { values } = parseArgs({
  options: {
    base: { type: 'string', default: '/' },
    out: { type: 'string', default: join(here, 'dist') },
    built: { type: 'boolean', default: false },
  },
})
const started = performance.now()

if (!existsSync(join(root, 'node_modules'))) run('npm', ['ci', '--no-audit', '--no-fund'], root)
if (!isInstalled(here)) run('npm', ['ci', '--no-audit', '--no-fund'], here)
const { emptyFolder, writePages } = await import('./pages.mjs')
const { writeReference } = await import('./reference.mjs')
const { build } = await import('vitepress')

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const repository = manifest.repository.url.replace(/^git\+|\.git$/g, '')
const playground = join(here, 'playground', 'dist')
if (existsSync(join(here, 'playground', 'build.mjs'))) {
  if (!values.built) run('npm', ['run', 'build'], root)
  run(process.execPath, ['playground/build.mjs'], here)
}
const cache = join(here, '.cache')
const folder = join(cache, 'pages')
emptyFolder(folder)
const reference = await writeReference({ root, manifest, folder, repository })
const sidebar = writePages({
  root,
  folder,
  repository,
  reference: reference.exported,
  playground: existsSync(playground),
})
cpSync(join(here, 'public'), join(folder, 'public'), { recursive: true })
const facts = {
  base: values.base,
  repository,
  sidebar,
  reference: reference.sidebar,
  playground: existsSync(playground),
}
writeFileSync(join(cache, 'facts.json'), JSON.stringify(facts))
await build(here, { outDir: values.out, base: values.base })
if (facts.playground) cpSync(playground, join(values.out, 'playground'), { recursive: true })
else console.log('site/playground/dist is not there: the site has no playground')
console.log(`${values.out}: built in ${((performance.now() - started) / 1000).toFixed(1)} s`)

/** Since the lock file changed last. */
function isInstalled(folder) {
  const installed = join(folder, 'node_modules', '.package-lock.json')
  return existsSync(installed) && statSync(installed).mtimeMs >= statSync(join(folder, 'package-lock.json')).mtimeMs
}

function run(command, args, cwd) {
  const { status } = spawnSync(command, args, { cwd, stdio: 'inherit', shell: process.platform === 'win32' })
  if (status !== 0) process.exit(status ?? 1)
}
