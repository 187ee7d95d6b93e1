// A CellEditor as a component. The editor keeps its own text; this hands changes from outside to it.
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import type { Cell } from '../model/doc';
import { useStore } from '../model/store';
import type { KernelQuestions } from '../net/kernel';
import { CellEditor, type EditorHooks } from './codemirror';

interface Props {
  cell: Cell;
  label: string;
  hint: string;
  questions: KernelQuestions | null;
  errorLine: number | null;
  hooks: EditorHooks;
  ready: (editor: CellEditor | null) => void;
}

export function Editor({ cell, label, hint, questions, errorLine, hooks, ready }: Props) {
  useStore(cell);
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<CellEditor | null>(null);
  const latest = useRef(hooks);
  latest.current = hooks;
  useLayoutEffect(() => {
    if (!host.current) return;
    const made = new CellEditor({
      parent: host.current, text: cell.source, python: cell.kind === 'code', label, hint, questions,
      hooks: {
        change: text => latest.current.change(text),
        focus: () => latest.current.focus(),
        run: then => latest.current.run(then),
        leave: () => latest.current.leave(),
        edge: way => latest.current.edge(way),
      },
    });
    editor.current = made;
    ready(made);
    return () => {
      ready(null);
      made.destroy();
      editor.current = null;
    };
  }, [cell, cell.kind, questions]);
  useEffect(() => editor.current?.setText(cell.source), [cell.source]);
  useEffect(() => editor.current?.markLine(errorLine), [errorLine]);
  return <div ref={host} class="editor" />;
}
