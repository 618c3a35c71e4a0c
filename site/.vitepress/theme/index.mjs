// The generator's own look, without its fonts: the reader's are used.
import { withBase } from 'vitepress'
import theme from 'vitepress/theme-without-fonts'
import { h } from 'vue'
import './look.css'

const NotFound = () =>
  h('main', { class: 'missing vp-doc' }, [
    h('h1', 'There is no such page'),
    h('p', ['Search for it, or look through ', h('a', { href: withBase('/contents.html') }, 'all documentation'), '.']),
  ])

export default {
  extends: theme,
  Layout: () => h(theme.Layout, null, { 'not-found': NotFound }),
}
