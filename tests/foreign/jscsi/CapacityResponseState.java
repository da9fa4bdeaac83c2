// Takes the place of jSCSI's class of this name, which ends the session at a unit attention: this one asks again.

package org.jscsi.initiator.connection.state;

import org.jscsi.exception.InternetSCSIException;
import org.jscsi.initiator.connection.Connection;
import org.jscsi.initiator.connection.TargetCapacityInformations;
import org.jscsi.parser.ProtocolDataUnit;
import org.jscsi.parser.data.DataInParser;
import org.jscsi.parser.scsi.SCSICommandParser.TaskAttributes;
import org.jscsi.parser.scsi.SCSIResponseParser;
import org.jscsi.parser.scsi.SCSIStatus;

final class CapacityResponseState extends AbstractState {
    private final TargetCapacityInformations capacity;

    protected CapacityResponseState(Connection connection, TargetCapacityInformations capacity) {
        super(connection);
        this.capacity = capacity;
    }

    @Override
    public void execute() throws InternetSCSIException {
        ProtocolDataUnit unit = connection.receive();
        Object parser = unit.getBasicHeaderSegment().getParser();
        if (parser instanceof DataInParser) {
            capacity.deserialize(unit.getDataSegment());
            if (!((DataInParser) parser).isStatusFlag()) {
                refuseFailure(connection.receive());
            }
            super.stateFollowing = false;
            return;
        }
        if (!isUnitAttention(unit)) {
            throw new InternetSCSIException("READ CAPACITY (10) was answered by " + parser);
        }
        connection.getSession().incrementInitiatorTaskTag();
        connection.nextState(
            new CapacityRequestState(connection, capacity, TaskAttributes.SIMPLE));
        super.stateFollowing = false;
    }

    /** A data segment begins with the length of the sense data; byte 2 of those has the key. */
    private static boolean isUnitAttention(ProtocolDataUnit unit) {
        return unit.getBasicHeaderSegment().getParser() instanceof SCSIResponseParser
            && unit.getDataSegment().limit() > 4
            && (unit.getDataSegment().get(4) & 0x0f) == 6;
    }

    private static void refuseFailure(ProtocolDataUnit unit) throws InternetSCSIException {
        Object parser = unit.getBasicHeaderSegment().getParser();
        if (!(parser instanceof SCSIResponseParser)
            || ((SCSIResponseParser) parser).getStatus() != SCSIStatus.GOOD) {
            throw new InternetSCSIException("READ CAPACITY (10) failed: " + parser);
        }
    }
}
