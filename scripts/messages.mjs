// Prints all texts of the library for people: `npm run messages [-- WORD]`. One line for each: its code, the text, the place. The code
// is that of the error or warning; "text" is a part of a message that is put together elsewhere. `${…}` stands for what is filled in.
// With a word, only the lines that contain it.
import { join, relative } from 'node:path'
import {
  isArrowFunction,
  isBinaryExpression,
  isCallExpression,
  isConditionalExpression,
  isIdentifier,
  isNewExpression,
  isNoSubstitutionTemplateLiteral,
  isParameterDeclaration,
  isParenthesizedExpression,
  isPropertyAccessExpression,
  isStringLiteral,
  isTemplateExpression,
  isVariableDeclaration,
} from 'typescript/unstable/ast/is'
import { API } from 'typescript/unstable/sync'
import { root } from './test-files.mjs'

/** A string with fewer words is a name or a part of a sentence, and not listed by itself. */
const WORDS = 4

/** The functions that make errors and warnings: what their arguments are, and how the message reads. */
const MAKERS = {
  stateError: ([code, message]) => [code, message],
  invalidType: ([name, expected, , way]) => [
    'ERR_INVALID_ARG_TYPE',
    `${name} must be ${expected}, not \${given}${way === undefined ? '' : `: ${way}`}`,
  ],
  invalidReceiver: ([expected]) => ['ERR_INVALID_ARG_TYPE', `must be called on ${expected}`],
  refuseReceiver: ([expected]) => ['ERR_INVALID_ARG_TYPE', `must be called on ${expected}`],
  invalidValue: ([message]) => ['ERR_INVALID_ARG_VALUE', message],
  outOfRange: ([name, expected, , way]) => [
    'ERR_OUT_OF_RANGE',
    `${name} must be ${expected}, not \${given}${way === undefined ? '' : `: ${way}`}`,
  ],
  deadlock: ([what, why]) => ['ERR_DEADLOCK', `${what} would wait forever: ${why}`],
  warnOnce: ([code, message]) => [code, message],
  emitWarning: ([message]) => ['warning', message],
  CudaError: ([, , code, explanation]) => [code, explanation ?? ''],
  Error: ([message]) => ['Error', message ?? ''],
  TypeError: ([message]) => ['TypeError', message ?? ''],
}

const api = new API({ cwd: root })
const configuration = join(root, 'tsconfig.json')
const { program } = api.updateSnapshot({ openProjects: [configuration] }).getProject(configuration)
const source = join(root, 'src')

const rows = []
for (const name of program.getSourceFileNames().filter((path) => path.startsWith(source))) {
  const file = program.getSourceFile(name)
  const constants = constantsOf(file)
  const covered = new Set()
  const at = (node) => `${relative(root, name)}:${file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1}`
  const visit = (node) => {
    const made = messageOf(node, (part) => textOf(part, constants, covered))
    if (made !== undefined) rows.push([...made, at(node)])
    node.forEachChild(visit)
  }
  visit(file)
  const visitText = (node) => {
    if (isText(node) && !covered.has(node)) {
      const text = textOf(node, constants, covered)
      if (isSentence(text)) rows.push(['text', text, at(node)])
    }
    node.forEachChild(visitText)
  }
  visitText(file)
}
api.close()

const word = process.argv[2]?.toLowerCase()
const listed = rows
  .map((row) => row.map((part) => part.replaceAll('\n', '↵')).join('\t'))
  .filter((line) => word === undefined || line.toLowerCase().includes(word))
  .sort()
console.log(listed.join('\n'))
console.error(`${listed.length} messages`)

/** The names in a file that stand for a text, or for an arrow function that returns one; without names of several variables. */
function constantsOf(file) {
  const found = new Map()
  const declared = new Set()
  const repeated = new Set()
  const visit = (node) => {
    if ((isVariableDeclaration(node) || isParameterDeclaration(node)) && isIdentifier(node.name)) {
      if (declared.has(node.name.text)) repeated.add(node.name.text)
      declared.add(node.name.text)
    }
    if (isVariableDeclaration(node) && isIdentifier(node.name) && node.initializer !== undefined) {
      const { initializer } = node
      const value = isArrowFunction(initializer) ? initializer.body : initializer
      if (isText(value) || isJoined(value) || isConditionalExpression(value)) found.set(node.name.text, value)
    }
    node.forEachChild(visit)
  }
  visit(file)
  for (const name of repeated) found.delete(name)
  return found
}

function isText(node) {
  return isStringLiteral(node) || isNoSubstitutionTemplateLiteral(node) || isTemplateExpression(node)
}

function isJoined(node) {
  return isBinaryExpression(node) && isText(node.left)
}

/** Enough words, and no WebAssembly text, tag of HTML or SVG, or parameters of a C function. */
function isSentence(text) {
  if (/\((?:[if](?:32|64)\b|let |if |select |func)|^\$?\w*\s*[\w-]+="|<\w+ |\w+_t |\bCU\w+ \*?\w+,|\w \*+\w/.test(text))
    return false
  return text.split(/\s+/).filter((part) => /[a-z]{2}/i.test(part)).length >= WORDS
}

/** [code, message] of a call that makes an error or a warning; undefined for any other node. */
function messageOf(node, text) {
  if (!isCallExpression(node) && !isNewExpression(node)) return undefined
  const { expression } = node
  const name = isIdentifier(expression)
    ? expression.text
    : isPropertyAccessExpression(expression)
      ? expression.name.text
      : ''
  const maker = Object.hasOwn(MAKERS, name) ? MAKERS[name] : undefined
  const given = [...(node.arguments ?? [])]
  if (maker === undefined || given.length === 0) return undefined
  return maker(given.map(text))
}

/** The text of an expression, with `${…}` for what is filled in. The literals that it has are added to `covered`. */
function textOf(node, constants, covered, depth = 0) {
  const inside = (part) => textOf(part, constants, covered, depth + 1)
  if (isParenthesizedExpression(node)) return inside(node.expression)
  if (isStringLiteral(node) || isNoSubstitutionTemplateLiteral(node)) {
    covered.add(node)
    return node.text
  }
  if (isTemplateExpression(node)) {
    covered.add(node)
    return (
      node.head.text +
      node.templateSpans.map(({ expression, literal }) => filledIn(expression, inside) + literal.text).join('')
    )
  }
  if (isBinaryExpression(node)) return `${inside(node.left)}${inside(node.right)}`
  if (isConditionalExpression(node)) return `(${inside(node.whenTrue)}|${inside(node.whenFalse)})`
  const called = isCallExpression(node) ? node.expression : node
  const value = isIdentifier(called) && depth < 4 ? constants.get(called.text) : undefined
  return value === undefined ? filledIn(node, () => undefined) : inside(value)
}

/** What is filled in: a text that is known, or the expression itself. */
function filledIn(node, inside) {
  const text = isText(node) || isConditionalExpression(node) || isIdentifier(node) ? inside(node) : undefined
  return text ?? `\${${node.getText().replace(/\s+/g, ' ')}}`
}
