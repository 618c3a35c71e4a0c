/** Words that were replaced by those of the field (docs/internals/glossary.md) do not come back: in the library, its docs and its messages. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { root } from '../helpers/root.js'

interface Gone {
  /** A part of a regular expression: whole words, in upper or lower case. */
  readonly word: string
  readonly instead: string
  /** Where the word has another meaning. */
  readonly allowed?: RegExp
}

const GONE: readonly Gone[] = [
  { word: 'walls?', instead: 'driver interface', allowed: /wall-clock/ },
  { word: 'nouns?', instead: 'public class' },
  { word: 'verbs?', instead: 'method of the driver interface' },
  { word: 'law of imports|laws?', instead: 'layering rules; guarantee' },
  { word: 'rooms of src|house of rooms', instead: 'layer' },
  { word: 'doors?', instead: 'entry point' },
  { word: 'funnels?', instead: 'validate, reserve, enqueue' },
  { word: 'gates?', instead: 'semaphore' },
  { word: 'twins?', instead: 'host implementation, fixed version' },
  { word: 'hidden streams?', instead: 'internal stream' },
  { word: 'homes?', instead: 'allocation stream', allowed: /\bHOME\b|'Home'/ },
  { word: 'strands?', instead: 'component of a vector clock' },
  { word: 'hold-?ups?', instead: 'stall' },
  {
    word: 'lanes?',
    instead: 'track (lanes are of warps)',
    allowed: /^(?!src\/timeline\/|docs\/timeline\.md|README\.md)/,
  },
  { word: 'mend(?:s|ed|ing)?', instead: 'fix' },
  { word: 'handed out', instead: 'escaped, exported' },
  { word: 'adopt(?:s|ed|ing)?|\\w+Adopt', instead: 'wrap' },
  { word: 'admit', instead: 'enable peer access' },
  { word: 'sleepers?|pumps?|LoopPump', instead: 'back-off timer, event-loop poller' },
  { word: 'raiseMark|lowerMark|readMark|watchMark', instead: 'register' },
  { word: 'makeRoom|\\w+MakeRoom', instead: 'reserve' },
  { word: 'table of threads', instead: 'process registry' },
  { word: 'pretend(?:s|ed)?', instead: 'fake' },
  { word: 'actors?|guests?', instead: 'client, foreign client' },
  { word: 'detours?', instead: 'deviation' },
  { word: 'usual order|usual choice', instead: 'default schedule' },
  { word: 'heard|heirs?', instead: 'reported; subclass' },
  { word: 'bags?', instead: 'options object' },
  { word: 'spoil(?:s|t)?', instead: 'invalidate' },
  { word: 'anew|lest|likewise|in the midst|save for', instead: 'plain words' },
]

const FOLDERS = ['src', 'docs', 'native', 'examples']
const FILES = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'tests/README.md']

/** Each use of a word that is gone, as "path:line: the word, use …". */
export function goneWords(path: string, text: string, gone: readonly Gone[] = GONE): readonly string[] {
  return gone.flatMap(({ word, instead, allowed }) => {
    if (allowed?.test(path)) return []
    const pattern = new RegExp(`(?<![\\w-])(?:${word})(?![\\w-])`, 'gi')
    return text.split('\n').flatMap((line, index) => {
      const found = pattern.exec(line)?.[0]
      pattern.lastIndex = 0
      if (found === undefined || allowed?.test(line)) return []
      return [`${path}:${index + 1}: '${found}', use ${instead}`]
    })
  })
}

const skip = existsSync(join(root, 'src')) ? false : 'the sources are not here, only what was compiled of them'

const filesIn = (folder: string): readonly string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .map((name) => `${folder}/${name.replaceAll('\\', '/')}`)
    .filter((name) => /\.(?:ts|c|h|md)$/.test(name) && !/\/(?:node_modules|bench)\//.test(name))

describe('words that are gone', () => {
  it('are found as whole words, in the places that do not allow them', () => {
    const gone = [{ word: 'lanes?', instead: 'track', allowed: /^a\/|fast lane/ }]
    assert.deepEqual(goneWords('b/c.ts', 'planes\nTwo Lanes here\na fast lane', gone), ["b/c.ts:2: 'Lanes', use track"])
    assert.deepEqual(goneWords('a/c.ts', 'two lanes', gone), [])
  })

  it('are in no file of the library, its docs and its messages', { skip }, () => {
    const names = [...FOLDERS.flatMap(filesIn), ...FILES]
    const found = names.flatMap((name) => goneWords(name, readFileSync(join(root, name), 'utf8')))
    assert.deepEqual(found, [])
  })
})
