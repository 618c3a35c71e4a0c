/** The site as `npm run site` built it, for the tests beside this file. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { root } from '../helpers/root.js'

export const site = join(root, 'site', 'dist')

/** Which folders and files the pages are made of. */
const SOURCES = ['docs', 'examples', 'site', 'src', 'README.md', 'CONTRIBUTING.md', 'CHANGELOG.md']
const BUILT = /^(?:\.cache|dist.*|node_modules)$/

/** Why there is no site to test, or undefined. */
export function siteUnavailable(): string | undefined {
  const front = join(site, 'index.html')
  if (!existsSync(front)) return 'site/dist is not there: `npm run site` builds it'
  const built = statSync(front).mtimeMs
  const newer = SOURCES.map((path) => newestOf(join(root, path))).find(({ time }) => time > built)
  return newer === undefined ? undefined : `site/dist is older than ${newer.path}: \`npm run site\` builds it again`
}

function newestOf(path: string): { readonly path: string; readonly time: number } {
  if (!statSync(path).isDirectory()) return { path, time: statSync(path).mtimeMs }
  return readdirSync(path)
    .filter((name) => !BUILT.test(name))
    .map((name) => newestOf(join(path, name)))
    .reduce((a, b) => (a.time > b.time ? a : b), { path, time: 0 })
}

/** The paths of all files of the site, with `/`. */
export function filesOf(folder: string = site): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => statSync(join(folder, path)).isFile())
    .map((path) => path.replaceAll('\\', '/'))
    .sort()
}

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
}

/** A plain server of static files: no rewriting, `index.html` for folders, 404.html for what is not there. */
export async function serve(folder: string): Promise<{ readonly server: Server; readonly address: string }> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost')
    const path = join(folder, decodeURIComponent(pathname), pathname.endsWith('/') ? 'index.html' : '')
    const found = path.startsWith(folder) && existsSync(path) && statSync(path).isFile()
    const file = found ? path : join(folder, '404.html')
    response.writeHead(found ? 200 : 404, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' })
    response.end(readFileSync(file))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { server, address: `http://127.0.0.1:${port}` }
}
