/**
 * A doc comment can be understood alone, where an editor shows it: it has a subject. Comments such as "Of the offsets." or "By device, those that
 * wait." continue a sentence that nobody sees.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { root } from '../helpers/root.js'

/** Words that stand for a subject which the comment does not name, or that continue another sentence. */
const NO_SUBJECT = new Set(
  `Of By Where Which Whose Those That These They Their It Its Both Such So Also Not Otherwise Instead Meanwhile Undefined`.split(
    ' ',
  ),
)

/** Prepositions: the sentence needs a main clause, which has the only verb. */
const PREPOSITIONS = new Set(
  `In At On For With Without From To Under Behind Beside Among Below Above As During`.split(' '),
)

/** Conjunctions: the main clause comes behind a comma, since the clause before it has a verb, too. "When it began" is a time, and needs none. */
const CONJUNCTIONS = new Set(`After Before Until Since While If Once`.split(' '))

/** Finite verbs, by which a main clause is recognised. "The end" and "to end" are none. */
const VERBS =
  /(?<!\b(?:the|a|an|of|to|in|at|for|by|and|this|that|each|its|their) )\b(?:is|are|was|were|has|have|had|does|do|did|can|cannot|could|may|might|must|will|would|should|(?:need|take|make|give|get|begin|end|run|wait|come|cost|count|mean|refuse|report|return|throw|tell|use|write|read|call|keep|become|belong|stand|remain|learn|let|lose|block|crash|allocate|find|work)(?:e?s)?|goes|go|copies|copy|lies|lie)\b/

/** Nested clauses, whose verb is none of the sentence. */
const NESTED = /,? \b(?:which|who|whose|that|where|such as)\b[^,;:]*/g

/** Does the sentence have a main clause behind its first word, or behind the clause that the word begins? */
function hasMainClause(first: string, sentence: string): boolean {
  const rest = sentence.slice(first.length).replace(NESTED, '')
  return VERBS.test(CONJUNCTIONS.has(first) ? (/^[^,]*, (?!or |and )(.+)/.exec(rest)?.[1] ?? '') : rest)
}

/** Is the beginning of a doc comment one without a subject? Returns the word by which that is recognised. */
export function withoutSubject(comment: string): string | undefined {
  const first = /^[A-Z][a-z]*(?=[\s,:.;])/.exec(comment)?.[0]
  if (first === undefined) return undefined
  if (NO_SUBJECT.has(first)) return first
  const [sentence = ''] = comment.split(/(?<=[.?:])\s/)
  const isOpen = PREPOSITIONS.has(first) || CONJUNCTIONS.has(first)
  return isOpen && !hasMainClause(first, sentence) ? first : undefined
}

/** The doc comments of a text that begin a line, each with the number of that line, in one line of text. */
function docCommentsOf(text: string): readonly { readonly line: number; readonly comment: string }[] {
  return [...text.matchAll(/^[ \t]*\/\*\*(?!\/)([\s\S]*?)\*\//gm)].map((match) => ({
    line: text.slice(0, match.index).split('\n').length,
    comment: (match[1] ?? '')
      .replace(/^\s*\* ?/gm, ' ')
      .replace(/\s+/g, ' ')
      .trim(),
  }))
}

/** What is wrong with the doc comments of a file. */
export const subjectless = (path: string, text: string): readonly string[] =>
  docCommentsOf(text).flatMap(({ line, comment }) => {
    const word = withoutSubject(comment)
    if (word === undefined) return []
    const shown = comment.length > 80 ? `${comment.slice(0, 80)}…` : comment
    return [
      `${path}:${line}: "${shown}" has no subject, by its first word "${word}": ` +
        'begin with the thing ("The streams that …", "The offset at which …") or with what a function does',
    ]
  })

const skip = existsSync(join(root, 'src')) ? false : 'the sources are not here, only what was compiled of them'

const wings = skip === false ? [...readdirSync(join(root, 'src')).map((wing) => `src/${wing}`), 'native'] : []

const filesIn = (folder: string): readonly string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .map((name) => `${folder}/${name.replaceAll('\\', '/')}`)
    .filter((name) => /\.(?:ts|cts|c|h)$/.test(name))

describe('the subjects of doc comments', () => {
  it('are missed where a comment continues a sentence that is not there', () => {
    const fragments = [
      'Of the offsets.',
      'By lane: where it reads.',
      'Those that take part.',
      'It used up its turn.',
      'Where a block begins.',
      'So many blocks are taken at a time.',
      'In the order of the source.',
      'At the end of the thread, which C may outlive.',
      'For tests: how many there are.',
      'Undefined for the host.',
    ]
    assert.deepEqual(
      fragments.map((comment) => withoutSubject(comment)),
      ['Of', 'By', 'Those', 'It', 'Where', 'So', 'In', 'At', 'For', 'Undefined'],
    )
  })

  it('are not missed in sentences and names of things', () => {
    const sentences = [
      'The offsets.',
      'Whether the thread takes part.',
      'Called when a stream is closed.',
      '`index` is that of the semaphore.',
      'In a lost context the memory is gone.',
      'When a stream captures, CUDA refuses the query.',
      'Below this address there is no memory.',
      'Is the stream idle?',
    ]
    assert.deepEqual(
      sentences.flatMap((comment) => withoutSubject(comment) ?? []),
      [],
    )
  })

  it('are looked for in the comments of a file, with their lines', () => {
    const text = `/** The first. */
const glob = '/**/'
/**
 * Of the
 * second.
 */
/* Of no doc comment. */
  /** By name. */`
    assert.deepEqual(
      subjectless('a.ts', text).map((fault) => fault.replace(/ has no .*/, '')),
      ['a.ts:3: "Of the second."', 'a.ts:8: "By name."'],
    )
  })

  for (const wing of wings)
    it(`are there in ${wing}`, { skip }, () => {
      const found = filesIn(wing).flatMap((path) => subjectless(path, readFileSync(join(root, path), 'utf8')))
      assert.deepEqual(found, [])
    })
})
