/**
 * `npm run bench:readme`: the table and the picture of the README, from the run that is stored in docs/bench. A test holds the
 * README against it.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { picture } from './picture.js'
import { type Result, readResult } from './result.js'
import { root } from './root.js'
import { resultTable } from './table.js'

export const STORED = 'docs/bench/h200.json'
const PICTURE = STORED.replace('.json', '.svg')
const [BEGIN, END] = ['<!-- the bench begins -->', '<!-- the bench ends -->']

function sectionOf(result: Result): string {
  const { machine, contestants, date, command } = result
  const versions = contestants.map(({ name, facts: { version = '', node } }) =>
    name === 'C' ? '' : `${name} ${[version, node && `on Node ${node}`].filter(Boolean).join(' ')}`,
  )
  const rounds = Math.max(...result.rows.map(({ samples }) => Math.max(...Object.values(samples).map((s) => s.length))))
  const facts = [`driver ${machine['driver']}`, machine['CPU'], machine['cores'] && `on cores ${machine['cores']}`]
  const two = result.rows.some(({ group }) => group.startsWith('NCCL')) ? ', NCCL on two of one host' : ''
  return `\`${command}\` on one ${machine['GPU']}${two} (${facts.filter(Boolean).join(', ')}; load ${machine['load']}), ${date.slice(0, 10)}: medians of
up to ${rounds} rounds in which all take turns. Beside each ratio stands the half of the rounds in the middle; a ratio below 1 is faster.
${versions.filter(Boolean).join(', ')}. [Every sample](${STORED}).

![Ratios to C and to the fastest Python library](${PICTURE})

${resultTable(result)}`
}

/** The README with this run in it. */
export function readmeWith(readme: string, result: Result): string {
  const [from, to] = [readme.indexOf(BEGIN), readme.indexOf(END)]
  if (from < 0 || to < from) throw new Error(`The README needs the lines '${BEGIN}' and '${END}'`)
  return `${readme.slice(0, from + BEGIN.length)}\n\n${sectionOf(result)}\n\n${readme.slice(to)}`
}

/** What the README shows of the bench. */
export function benchOf(readme: string): string {
  return readme.slice(readme.indexOf(BEGIN), readme.indexOf(END))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const readme = join(root, 'README.md')
  const result = readResult(join(root, STORED))
  writeFileSync(join(root, PICTURE), picture(result))
  writeFileSync(readme, readmeWith(readFileSync(readme, 'utf8'), result))
  console.log(`README.md and ${PICTURE} show ${STORED}, of ${result.date}`)
}
