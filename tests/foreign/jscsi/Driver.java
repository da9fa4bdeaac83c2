// Driver for jSCSI: sessions of Java's initiator that write, read, compare, are refused and log out.

import java.io.File;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

import org.jscsi.initiator.Configuration;
import org.jscsi.initiator.Initiator;

/** Usage: Driver ADDRESS PORT TARGET BLOCKS refused|SESSIONS. All I/O is to LUN 0. */
public final class Driver {
    private static final int BLOCK = 512;
    private static final String SESSION = "array";

    private final String address;
    private final String port;
    private final String target;
    private final long blocks;

    private Driver(String[] words) {
        address = words[0];
        port = words[1];
        target = words[2];
        blocks = Long.parseLong(words[3]);
    }

    public static void main(String[] words) throws Exception {
        Driver driver = new Driver(words);
        int status = 0;
        try {
            if (words[4].equals("refused")) {
                driver.isRefused();
            } else {
                driver.runSessions(Integer.parseInt(words[4]));
            }
        } catch (Exception failure) {
            failure.printStackTrace();
            status = 1;
        }
        // Its worker threads outlive a session that failed.
        System.exit(status);
    }

    /** A login without CHAP where CHAP is asked for. */
    private void isRefused() throws Exception {
        try {
            login(0, "Yes", "No");
        } catch (Exception refused) {
            say("refused");
            return;
        }
        throw new IllegalStateException("a login without CHAP was let in");
    }

    /** Several initiators at once, each with a part of the LUN to itself. */
    private void runSessions(int count) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(count);
        List<Future<Void>> sessions = new ArrayList<>();
        for (int index = 0; index < count; index++) {
            int own = index;
            Callable<Void> work = () -> {
                work(own);
                return null;
            };
            sessions.add(threads.submit(work));
        }
        for (Future<Void> session : sessions) {
            session.get();
        }
        threads.shutdown();
        say("done");
    }

    private void work(int index) throws Exception {
        // Every second one sends without being asked, the others wait for R2T.
        boolean solicited = index % 2 == 1;
        Initiator initiator =
            login(index, solicited ? "No" : "Yes", solicited ? "Yes" : "No");
        same("block length", initiator.getBlockSize(SESSION), BLOCK);
        // READ CAPACITY tells the last block's address, and jSCSI calls that the capacity.
        same("last block", initiator.getCapacity(SESSION), blocks - 1);
        int start = index * 16384;
        for (int length : new int[] {BLOCK, 8 * BLOCK, 65536, 1 << 20}) {
            byte[] data = pattern(index, length);
            initiator.write(SESSION, ByteBuffer.wrap(data), start, length);
            readBack(initiator, start, data);
        }
        hold(initiator, index, start);
        pastTheEnd(initiator, index);
        say("session " + index + " wrote and read");
    }

    /** What a second reader finds later: a byte that tells whose part of the LUN it is. */
    private void hold(Initiator initiator, int index, int start) throws Exception {
        byte[] data = new byte[1 << 20];
        Arrays.fill(data, (byte) (0x41 + index));
        initiator.write(SESSION, ByteBuffer.wrap(data), start, data.length);
        List<Future<Void>> reads = new ArrayList<>();
        List<ByteBuffer> found = new ArrayList<>();
        for (int part = 0; part < 16; part++) {
            ByteBuffer buffer = ByteBuffer.allocate(65536);
            found.add(buffer);
            reads.add(initiator.multiThreadedRead(SESSION, buffer, start + part * 128, 65536));
        }
        for (Future<Void> read : reads) {
            read.get();
        }
        for (ByteBuffer buffer : found) {
            if (!Arrays.equals(buffer.array(), Arrays.copyOf(data, 65536))) {
                throw new IllegalStateException("a queued read found other data");
            }
        }
        initiator.closeSession(SESSION);
    }

    /** What lies behind the last block is refused; jSCSI cannot go on with a session after that. */
    private void pastTheEnd(Initiator last, int index) throws Exception {
        if (!last.noSessions()) {
            throw new IllegalStateException("the session is there after its logout");
        }
        ByteBuffer block = ByteBuffer.allocate(BLOCK);
        Initiator reader = login(index, "Yes", "Yes");
        refuses("read", () -> reader.read(SESSION, block, (int) blocks, BLOCK));
        Initiator writer = login(index, "Yes", "Yes");
        refuses("write", () -> writer.write(SESSION, block, (int) blocks, BLOCK));
    }

    private interface Command {
        void send() throws Exception;
    }

    private static void refuses(String what, Command command) {
        try {
            command.send();
        } catch (Exception refused) {
            return;
        }
        throw new IllegalStateException("a " + what + " behind the last block succeeded");
    }

    private void readBack(Initiator initiator, int start, byte[] data) throws Exception {
        ByteBuffer buffer = ByteBuffer.allocate(data.length);
        initiator.read(SESSION, buffer, start, data.length);
        if (!Arrays.equals(buffer.array(), data)) {
            throw new IllegalStateException(data.length + " bytes at " + start + " differ");
        }
    }

    private Initiator login(int index, String immediate, String initialR2T) throws Exception {
        Path folder = Files.createTempDirectory("gantry-jscsi-");
        try {
            File schema = folder.resolve("jscsi.xsd").toFile();
            try (InputStream text = Initiator.class.getResourceAsStream("/jscsi.xsd")) {
                Files.copy(text, schema.toPath(), StandardCopyOption.REPLACE_EXISTING);
            }
            File settings = folder.resolve("jscsi.xml").toFile();
            String text = configuration(index, immediate, initialR2T);
            Files.write(settings.toPath(), text.getBytes("UTF-8"));
            Initiator initiator = new Initiator(Configuration.create(schema, settings));
            initiator.createSession(SESSION);
            return initiator;
        } finally {
            for (File file : folder.toFile().listFiles()) {
                file.delete();
            }
            folder.toFile().delete();
        }
    }

    private String configuration(int index, String immediate, String initialR2T) {
        String[][] keys = {
            {"AuthMethod", "None"}, {"DataDigest", "None"}, {"DataPDUInOrder", "Yes"},
            {"DataSequenceInOrder", "Yes"}, {"DefaultTime2Retain", "20"},
            {"DefaultTime2Wait", "2"}, {"ErrorRecoveryLevel", "0"},
            {"FirstBurstLength", "65536"}, {"HeaderDigest", "None"}, {"IFMarker", "No"},
            {"IFMarkInt", "2048"}, {"ImmediateData", immediate}, {"InitialR2T", initialR2T},
            {"InitiatorAlias", "jscsi"},
            {"InitiatorName", "iqn.2026-11.example:jscsi" + index},
            {"MaxBurstLength", "262144"}, {"MaxConnections", "1"}, {"MaxOutstandingR2T", "1"},
            {"MaxRecvDataSegmentLength", index % 2 == 0 ? "8192" : "65536"}, {"OFMarker", "No"}, {"OFMarkInt", "2048"},
            {"SessionType", "Normal"},
        };
        StringBuilder text = new StringBuilder();
        text.append("<configuration xmlns=\"http://www.jscsi.org/2006-09\"><global>");
        for (String[] key : keys) {
            text.append("<" + key[0] + ">" + key[1] + "</" + key[0] + ">");
        }
        text.append("</global><target id=\"" + SESSION + "\" address=\"" + address);
        text.append("\" port=\"" + port + "\"><TargetName>" + target);
        text.append("</TargetName></target></configuration>");
        return text.toString();
    }

    private static byte[] pattern(int index, int length) {
        byte[] data = new byte[length];
        new Random(index * 31L + length).nextBytes(data);
        return data;
    }

    private static void same(String what, long found, long expected) {
        if (found != expected) {
            throw new IllegalStateException(what + ": " + found + ", not " + expected);
        }
    }

    private static void say(String what) {
        System.out.println(what);
    }
}
